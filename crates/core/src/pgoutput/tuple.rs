//! The values of a row.

use super::reader::{DecodeError, Reader};

/// A row's values, checked as they are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuple<'a> {
    columns: u16,
    bytes: &'a [u8],
}

/// One value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TupleValue<'a> {
    /// NULL.
    Null,
    /// A large value that an UPDATE did not change. Can't happen on an insert.
    UnchangedToast,
    /// The type's text form.
    Text(&'a [u8]),
    /// The type's binary (send) form.
    Binary(&'a [u8]),
}

impl<'a> Tuple<'a> {
    /// A row that goes to the end of the message; its values are read lazily.
    pub(super) fn last(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let columns = reader.count16("column count")?;
        let bytes = reader.rest();
        *reader = Reader::new(&[]);
        Ok(Tuple { columns, bytes })
    }

    /// A row with something after it: its end is found by reading its values.
    pub(super) fn inner(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let columns = reader.count16("column count")?;
        let bytes = reader.rest();
        for _ in 0..columns {
            value(reader)?;
        }
        let len = bytes.len() - reader.rest().len();
        let bytes = Reader::new(bytes).bytes("row", len)?;
        Ok(Tuple { columns, bytes })
    }

    /// A row that stands alone; its values are read lazily.
    pub fn of(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Tuple::last(&mut Reader::new(bytes))
    }

    /// The first of the rows in these bytes, and the bytes after it.
    pub fn first(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError> {
        let mut reader = Reader::new(bytes);
        let row = Tuple::inner(&mut reader)?;
        Ok((row, reader.rest()))
    }

    /// How many values the row has.
    pub fn columns(&self) -> u16 {
        self.columns
    }

    /// The values in the relation's order. The last item is an error if bytes are left over.
    pub fn values(&self) -> Values<'a> {
        Values { left: self.columns, reader: Reader::new(self.bytes), done: false }
    }
}

/// Iterator over the values of a row.
#[derive(Debug, Clone)]
pub struct Values<'a> {
    left: u16,
    reader: Reader<'a>,
    done: bool,
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<TupleValue<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if self.left == 0 {
            self.done = true;
            return self.reader.end().err().map(Err);
        }
        self.left -= 1;
        let value = value(&mut self.reader);
        self.done = value.is_err();
        Some(value)
    }
}

fn value<'a>(reader: &mut Reader<'a>) -> Result<TupleValue<'a>, DecodeError> {
    match reader.u8("value kind")? {
        b'n' => Ok(TupleValue::Null),
        b'u' => Ok(TupleValue::UnchangedToast),
        b't' => sized(reader).map(TupleValue::Text),
        b'b' => sized(reader).map(TupleValue::Binary),
        tag => Err(DecodeError::UnknownTag { field: "value kind", tag }),
    }
}

fn sized<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let len = reader.length32("value length")?;
    reader.bytes("value", len)
}
