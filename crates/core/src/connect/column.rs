//! A column as Debezium's connector describes it: by its type, and by what the catalog has on it.

use std::borrow::Cow;

use super::data::Data;
use super::default::default_of;
use super::modes::{BinaryMode, DecimalMode, Modes, TimeMode};
use super::reader::{Reader, Unit};
use super::schema::{Kind, Schema};
use super::times::Fraction;

/// What the catalog has on a column's type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnType {
    /// The type's OID; for a domain, that of its base type.
    pub type_oid: u32,
    /// Its name, `int4`.
    pub type_name: String,
    /// `atttypmod`: precision and the like; -1 if there is none.
    pub type_modifier: i32,
    /// It can't be NULL.
    pub not_null: bool,
    /// Its DEFAULT, as an expression.
    pub default: Option<String>,
    /// The values of an enum, in their order.
    pub enum_labels: Vec<String>,
}

/// The columns of a table whose values are read by their types; the order is that of who asked. None
/// stands for a column that the table does not have.
#[derive(Debug, Clone, PartialEq)]
pub struct TypedColumns(Vec<Option<ConnectColumn>>);

impl TypedColumns {
    pub(crate) fn new(columns: Vec<Option<ConnectColumn>>) -> Self {
        TypedColumns(columns)
    }

    pub(crate) fn get(&self, number: usize) -> Option<&ConnectColumn> {
        self.0.get(number)?.as_ref()
    }
}

/// How a column's values are read, and what they are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConnectColumn {
    reader: Reader,
    schema: Schema,
    /// What a JSON converter with schemas writes before a value of this column.
    json_head: String,
}

impl ConnectColumn {
    /// None: a type that can't be written as Debezium writes it.
    pub(crate) fn new(column: &ColumnType, modes: Modes) -> Option<Self> {
        let (reader, mut schema) = of_type(column, modes)?;
        schema.optional = !column.not_null;
        schema.default = column.default.as_deref().and_then(|it| default_of(it, column, reader));
        let mut json_head = String::from(r#"{"schema":"#);
        schema.write(&mut json_head, None);
        json_head.push_str(r#","payload":"#);
        Some(ConnectColumn { reader, schema, json_head })
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn json_head(&self) -> &str {
        &self.json_head
    }

    /// What a number of this column counts, if it is a timestamp that a record can have.
    pub(crate) fn timestamp_unit(&self) -> Option<Unit> {
        match self.reader {
            Reader::Timestamp(unit) => Some(unit),
            _ => None,
        }
    }

    /// Whether it reads bytes, and not text.
    pub(crate) fn reads_bytes(&self) -> bool {
        self.reader.reads_bytes()
    }

    /// What a value has to be, for people.
    pub(crate) fn expected(&self) -> &'static str {
        self.reader.expected()
    }

    /// A value that is bytes.
    pub(crate) fn of_bytes<'a>(&self, bytes: Option<Cow<'a, [u8]>>) -> Data<'a> {
        bytes.map_or_else(|| self.default(), |bytes| self.reader.read_bytes(bytes))
    }

    /// Any other value. None: it is not what the column's type promises.
    pub(crate) fn of_text<'a>(&self, text: Option<Cow<'a, str>>) -> Option<Data<'a>> {
        text.map_or_else(|| Some(self.default()), |text| self.reader.read(text))
    }

    /// As in Debezium, NULL is the column's default, if it has one.
    fn default(&self) -> Data<'static> {
        self.schema.default.clone().unwrap_or(Data::Null)
    }
}

fn of_type(column: &ColumnType, modes: Modes) -> Option<(Reader, Schema)> {
    let text = || (Reader::Text, Schema::of(Kind::Text));
    let named = |name| (Reader::Text, Schema::logical(Kind::Text, name));
    let number = |kind| (Reader::Integer, Schema::of(kind));
    // The OIDs of built-in types never change (pg_type.dat).
    Some(match column.type_oid {
        16 => (Reader::Boolean, Schema::of(Kind::Boolean)),
        21 => number(Kind::Int16),
        23 => number(Kind::Int32),
        20 | 26 => number(Kind::Int64),
        700 => (Reader::Float32, Schema::of(Kind::Float32)),
        701 => (Reader::Float64, Schema::of(Kind::Float64)),
        1700 => numeric(column.type_modifier, modes.decimals),
        // text, varchar, char(n), "char"; inet, cidr, macaddr, macaddr8
        25 | 1043 | 1042 | 18 | 869 | 650 | 829 | 774 => text(),
        // the built-in ranges
        3904 | 3906 | 3908 | 3910 | 3912 | 3926 => text(),
        114 | 3802 => named("io.debezium.data.Json"),
        2950 => named("io.debezium.data.Uuid"),
        142 => named("io.debezium.data.Xml"),
        3614 => named("io.debezium.data.Tsvector"),
        1560 | 1562 => bits(column.type_modifier)?,
        17 => bytes(modes.bytes),
        1082 => date(modes.times),
        1083 => time(precision(column.type_modifier), modes.times),
        1114 => timestamp(precision(column.type_modifier), modes.times),
        1184 => {
            let fraction = match precision(column.type_modifier) {
                0 => Fraction::Shortest,
                digits => Fraction::Digits(digits),
            };
            let name = "io.debezium.time.ZonedTimestamp";
            (Reader::ZonedTimestamp(fraction), Schema::logical(Kind::Text, name))
        }
        1266 => {
            let schema = Schema::logical(Kind::Text, "io.debezium.time.ZonedTime");
            (Reader::ZonedTime, schema)
        }
        1186 => {
            let schema = Schema::logical(Kind::Int64, "io.debezium.time.MicroDuration");
            (Reader::Interval, schema)
        }
        oid if item_oid(oid).is_some() => array(column, modes)?,
        _ if !column.enum_labels.is_empty() => {
            let (reader, mut schema) = named("io.debezium.data.Enum");
            schema.parameters.push(("allowed", column.enum_labels.join(",")));
            (reader, schema)
        }
        _ if column.type_name == "citext" => text(),
        _ if column.type_name == "ltree" => named("io.debezium.data.Ltree"),
        _ => return None,
    })
}

/// Bits of a fixed or a limited number.
fn bits(type_modifier: i32) -> Option<(Reader, Schema)> {
    if type_modifier == 1 {
        return Some((Reader::Bit, Schema::of(Kind::Boolean)));
    }
    let length = u32::try_from(type_modifier).ok()?;
    let mut schema = Schema::logical(Kind::Bytes, "io.debezium.data.Bits");
    schema.parameters.push(("length", length.to_string()));
    Some((Reader::Bits, schema))
}

/// The type of an array's items, for those that are read.
fn item_oid(array_oid: u32) -> Option<u32> {
    Some(match array_oid {
        1000 => 16,   // bool
        1005 => 21,   // int2
        1007 => 23,   // int4
        1016 => 20,   // int8
        1021 => 700,  // float4
        1022 => 701,  // float8
        1009 => 25,   // text
        1015 => 1043, // varchar
        1014 => 1042, // char(n)
        2951 => 2950, // uuid
        _ => return None,
    })
}

fn array(column: &ColumnType, modes: Modes) -> Option<(Reader, Schema)> {
    let type_oid = item_oid(column.type_oid)?;
    let (reader, items) = of_type(&ColumnType { type_oid, ..column.clone() }, modes)?;
    let reader = match reader {
        Reader::Boolean => &Reader::Boolean,
        Reader::Integer => &Reader::Integer,
        Reader::Float32 => &Reader::Float32,
        Reader::Float64 => &Reader::Float64,
        _ => &Reader::Text,
    };
    let items = Schema { optional: true, ..items };
    Some((Reader::Array(reader), Schema::of(Kind::Array(Box::new(items)))))
}

/// Digits after a second's decimal point.
fn precision(type_modifier: i32) -> usize {
    usize::try_from(type_modifier).unwrap_or(6)
}

fn numeric(type_modifier: i32, mode: DecimalMode) -> (Reader, Schema) {
    // VARHDRSZ is part of it; scales are 11 bits with a sign (numeric.c).
    let typed = u32::try_from(type_modifier - 4).ok();
    let precision_and_scale = typed.map(|typed| (typed >> 16, typed & 0x7FF));
    match (mode, precision_and_scale) {
        (DecimalMode::Double, _) => (Reader::Float64, Schema::of(Kind::Float64)),
        (DecimalMode::Text, _) => (Reader::DecimalText, Schema::of(Kind::Text)),
        (DecimalMode::Precise, Some((precision, scale))) => {
            let mut schema = Schema::logical(Kind::Bytes, "org.apache.kafka.connect.data.Decimal");
            schema.parameters = vec![
                ("scale", scale.to_string()),
                ("connect.decimal.precision", precision.to_string()),
            ];
            (Reader::Decimal { scale }, schema)
        }
        (DecimalMode::Precise, None) => {
            let member = |name: &str, kind| (name.to_owned(), Schema::of(kind));
            let fields = [member("scale", Kind::Int32), member("value", Kind::Bytes)];
            let kind = Kind::Struct(fields.into_iter().collect());
            let mut schema = Schema::logical(kind, "io.debezium.data.VariableScaleDecimal");
            schema.doc = Some("Variable scaled decimal");
            (Reader::VariableDecimal, schema)
        }
    }
}

fn bytes(mode: BinaryMode) -> (Reader, Schema) {
    match mode {
        BinaryMode::Bytes => (Reader::Bytes, Schema::of(Kind::Bytes)),
        BinaryMode::Base64 => (Reader::Base64, Schema::of(Kind::Text)),
        BinaryMode::Base64Url => (Reader::Base64Url, Schema::of(Kind::Text)),
        BinaryMode::Hex => (Reader::Hex, Schema::of(Kind::Text)),
    }
}

fn date(mode: TimeMode) -> (Reader, Schema) {
    match mode {
        TimeMode::IsoText => {
            (Reader::IsoDate, Schema::logical(Kind::Text, "io.debezium.time.IsoDate"))
        }
        TimeMode::Connect => {
            let schema = Schema::logical(Kind::Int32, "org.apache.kafka.connect.data.Date");
            (Reader::ConnectDate, schema)
        }
        _ => (Reader::Date, Schema::logical(Kind::Int32, "io.debezium.time.Date")),
    }
}

fn time(precision: usize, mode: TimeMode) -> (Reader, Schema) {
    let number = |unit, kind, name| (Reader::Time(unit), Schema::logical(kind, name));
    match mode {
        TimeMode::IsoText => {
            (Reader::IsoTime, Schema::logical(Kind::Text, "io.debezium.time.IsoTime"))
        }
        TimeMode::Connect => {
            let schema = Schema::logical(Kind::Int32, "org.apache.kafka.connect.data.Time");
            (Reader::ConnectTime, schema)
        }
        TimeMode::Adaptive if precision <= 3 => {
            number(Unit::Millis, Kind::Int32, "io.debezium.time.Time")
        }
        TimeMode::Nanoseconds => number(Unit::Nanos, Kind::Int64, "io.debezium.time.NanoTime"),
        TimeMode::Adaptive | TimeMode::AdaptiveTimeMicroseconds | TimeMode::Microseconds => {
            number(Unit::Micros, Kind::Int64, "io.debezium.time.MicroTime")
        }
    }
}

fn timestamp(precision: usize, mode: TimeMode) -> (Reader, Schema) {
    let number = |unit, name| (Reader::Timestamp(unit), Schema::logical(Kind::Int64, name));
    match mode {
        TimeMode::IsoText => {
            (Reader::IsoTimestamp, Schema::logical(Kind::Text, "io.debezium.time.IsoTimestamp"))
        }
        TimeMode::Connect => {
            let schema = Schema::logical(Kind::Int64, "org.apache.kafka.connect.data.Timestamp");
            (Reader::ConnectTimestamp, schema)
        }
        TimeMode::Adaptive | TimeMode::AdaptiveTimeMicroseconds if precision <= 3 => {
            number(Unit::Millis, "io.debezium.time.Timestamp")
        }
        TimeMode::Nanoseconds => number(Unit::Nanos, "io.debezium.time.NanoTimestamp"),
        TimeMode::Adaptive | TimeMode::AdaptiveTimeMicroseconds | TimeMode::Microseconds => {
            number(Unit::Micros, "io.debezium.time.MicroTimestamp")
        }
    }
}
