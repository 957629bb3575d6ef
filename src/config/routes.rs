//! `[route]` and `[format]`, for all tables and for one: read once where they were typed, then
//! resolved for each table.

use postrider_core::format::{
    CLOUD_EVENT_HEADERS, Format, Frame, FramePlace, SchemaId, SchemaRules, Subject, ValueFormat,
};
use postrider_core::route::{DefaultHeader, HeaderRule, HeaderRules, KeyList, Route, Template};
use postrider_core::row::{ColumnNames, ColumnRef};

use super::keys::{self, Key};
use super::parse;
use super::presets::Preset;
use super::problem::{Origin, Problem};
use super::raw::{Pairs, Typed};
use super::secrets;
use super::table_name::split_unquoted;

type TypedTemplate = Template<ColumnRef>;

/// A value with the setting that it was typed as and where; none: it is a default.
#[derive(Clone)]
pub(super) struct Set<T> {
    value: T,
    at: Option<(String, Origin)>,
}

/// What was typed in one place; `None` was not typed there, or is wrong.
#[derive(Clone, Default)]
pub(super) struct RouteSettings {
    topic: Option<Set<TypedTemplate>>,
    key: Option<Set<KeyList<ColumnRef>>>,
    partition_by: Option<Set<KeyList<ColumnRef>>>,
    headers: Option<Set<Vec<HeaderRule<ColumnRef>>>>,
    default_headers: Option<Set<bool>>,
    value: Option<Set<ValueFormat>>,
    source: Option<Set<TypedTemplate>>,
    event_type: Option<Set<TypedTemplate>>,
    schema_id: Option<Set<TypedTemplate>>,
    schema_ids: Option<Set<Vec<(String, SchemaId)>>>,
    subject: Option<Set<Option<TypedTemplate>>>,
    message_index: Option<Set<Vec<u8>>>,
    schema_in: Option<Set<FramePlace>>,
}

/// Where settings were typed.
pub(super) struct Place<'a> {
    /// What was typed for a key.
    pub(super) value: &'a dyn Fn(&Key) -> Option<Typed>,
    /// The same for keys with names and values.
    pub(super) pairs: &'a dyn Fn(&Key) -> Option<Pairs>,
    /// What people call the key there.
    pub(super) path: &'a dyn Fn(&Key) -> String,
}

impl Place<'_> {
    fn read<T>(
        &self,
        key: &Key,
        parse: impl Fn(&str) -> Result<T, String>,
        problems: &mut Vec<Problem>,
    ) -> Option<Set<T>> {
        let Typed { text, origin } = (self.value)(key)?;
        let path = (self.path)(key);
        match parse(text.trim()) {
            Ok(value) => Some(Set { value, at: Some((path, origin)) }),
            Err(reason) => {
                let reason = secrets::reason(reason, &text);
                let message = format!("{}: {reason}", secrets::setting(&path, &text));
                problems.push(Problem::at(&origin, message));
                None
            }
        }
    }

    fn read_pairs<T>(
        &self,
        key: &Key,
        parse: impl Fn(&str, &str) -> Result<T, String>,
        problems: &mut Vec<Problem>,
    ) -> Option<Set<Vec<T>>> {
        let pairs = (self.pairs)(key)?;
        let path = (self.path)(key);
        let at = pairs.values().next().map(|typed| (path.clone(), typed.origin.clone()));
        let mut value = Vec::new();
        for (name, Typed { text, origin }) in pairs {
            match parse(&name, text.trim()) {
                Ok(parsed) => value.push(parsed),
                Err(reason) => {
                    let reason = secrets::reason(reason, &text);
                    let setting = secrets::setting(&format!("{path}.{name}"), &text);
                    problems.push(Problem::at(&origin, format!("{setting}: {reason}")));
                }
            }
        }
        Some(Set { value, at })
    }
}

fn template(text: &str) -> Result<TypedTemplate, String> {
    Template::parse(text).map_err(|error| error.to_string())
}

fn key_list(text: &str) -> Result<KeyList<ColumnRef>, String> {
    let names = split_unquoted(text, ',').map(str::trim).filter(|name| !name.is_empty());
    KeyList::parse(names).map_err(|error| error.to_string())
}

/// An empty value omits a default header.
fn header(name: &str, text: &str) -> Result<HeaderRule<ColumnRef>, String> {
    if name.is_empty() || name.contains('\0') {
        return Err("a header needs a name".to_owned());
    }
    let is_default = DefaultHeader::ALL.iter().any(|header| header.name() == name);
    if text.is_empty() && !is_default {
        return Err("only a default header can be omitted; give this one a value".to_owned());
    }
    let value = if text.is_empty() { None } else { Some(template(text)?) };
    Ok(HeaderRule { name: name.to_owned(), value })
}

fn schema_id_template(text: &str) -> Result<TypedTemplate, String> {
    let template = template(text)?;
    if let Some(constant) = template.constant() {
        parse::schema_id(&constant)?;
    }
    Ok(template)
}

fn subject(text: &str) -> Result<Option<TypedTemplate>, String> {
    if text == "off" { Ok(None) } else { template(text).map(Some) }
}

impl RouteSettings {
    /// Reads what was typed in one place.
    pub(super) fn read(place: &Place<'_>, problems: &mut Vec<Problem>) -> Self {
        RouteSettings {
            topic: place.read(&keys::ROUTE_TOPIC, template, problems),
            key: place.read(&keys::ROUTE_KEY, key_list, problems),
            partition_by: place.read(&keys::ROUTE_PARTITION_BY, key_list, problems),
            headers: place.read_pairs(&keys::ROUTE_HEADERS, header, problems),
            default_headers: place.read(&keys::ROUTE_DEFAULT_HEADERS, parse::yes_or_no, problems),
            value: place.read(&keys::FORMAT_VALUE, parse::value_format, problems),
            source: place.read(&keys::FORMAT_SOURCE, template, problems),
            event_type: place.read(&keys::FORMAT_TYPE, template, problems),
            schema_id: place.read(&keys::FORMAT_SCHEMA_ID, schema_id_template, problems),
            schema_ids: place.read_pairs(
                &keys::FORMAT_SCHEMA_IDS,
                |topic, id| Ok((topic.to_owned(), parse::schema_id(id)?)),
                problems,
            ),
            subject: place.read(&keys::FORMAT_SUBJECT, subject, problems),
            message_index: place.read(&keys::FORMAT_MESSAGE_INDEX, parse::message_index, problems),
            schema_in: place.read(&keys::FORMAT_SCHEMA_IN, parse::schema_in, problems),
        }
    }

    /// What was typed here, and for the rest what these say.
    pub(super) fn or(self, others: &Self) -> Self {
        RouteSettings {
            topic: self.topic.or_else(|| others.topic.clone()),
            key: self.key.or_else(|| others.key.clone()),
            partition_by: self.partition_by.or_else(|| others.partition_by.clone()),
            headers: self.headers.or_else(|| others.headers.clone()),
            default_headers: self.default_headers.or_else(|| others.default_headers.clone()),
            value: self.value.or_else(|| others.value.clone()),
            source: self.source.or_else(|| others.source.clone()),
            event_type: self.event_type.or_else(|| others.event_type.clone()),
            schema_id: self.schema_id.or_else(|| others.schema_id.clone()),
            schema_ids: self.schema_ids.or_else(|| others.schema_ids.clone()),
            subject: self.subject.or_else(|| others.subject.clone()),
            message_index: self.message_index.or_else(|| others.message_index.clone()),
            schema_in: self.schema_in.or_else(|| others.schema_in.clone()),
        }
    }

    /// What a preset says. The Event Router, if it makes the records, has headers of its own.
    pub(super) fn of_preset(preset: Preset, is_routed: bool) -> Self {
        let Some(route) = preset.route() else { return RouteSettings::default() };
        let headers = if is_routed { Vec::new() } else { route.headers };
        RouteSettings {
            topic: Some(Set { value: route.topic, at: None }),
            key: Some(Set { value: route.key, at: None }),
            headers: Some(Set { value: headers, at: None }),
            default_headers: Some(Set { value: false, at: None }),
            ..RouteSettings::default()
        }
    }

    /// Whether values are the payload, as far as a format was chosen.
    pub(super) fn is_raw(&self) -> bool {
        self.value.as_ref().is_none_or(|set| set.value == ValueFormat::Raw)
    }

    /// Where the topic was typed.
    pub(super) fn topic_origin(&self) -> Option<&(String, Origin)> {
        self.topic.as_ref()?.at.as_ref()
    }

    /// Where the headers were typed, if there is one with this name.
    pub(super) fn header_origin(&self, name: &str) -> Option<&(String, Origin)> {
        let headers = self.headers.as_ref()?;
        let is_there = headers.value.iter().any(|rule| rule.name == name);
        headers.at.as_ref().filter(|_| is_there)
    }

    /// Where the key was typed.
    pub(super) fn key_origin(&self) -> Option<&(String, Origin)> {
        self.key.as_ref()?.at.as_ref()
    }

    /// Route and format of a table with these names, which learn of the columns that are read.
    pub(super) fn resolve(
        &self,
        names: &mut ColumnNames,
        whole_topic: bool,
        has_registry: bool,
        problems: &mut Vec<Problem>,
    ) -> (Route, Format) {
        let mut resolver = Resolver { names, problems };
        let defaults = Route::default();
        let topic = match &self.topic {
            None => defaults.topic,
            Some(topic) => resolver.template(topic).unwrap_or(defaults.topic),
        };
        let route = Route {
            topic,
            key: resolver.keys(self.key.as_ref()).unwrap_or(defaults.key),
            partition_by: resolver.keys(self.partition_by.as_ref()).unwrap_or_default(),
            headers: self.headers(&mut resolver),
            whole_topic,
            topic_router: None,
        };
        let format = self.format(&mut resolver, has_registry);
        (route, format)
    }

    fn headers(&self, resolver: &mut Resolver<'_>) -> HeaderRules {
        let defaults = self.default_headers.as_ref().is_none_or(|set| set.value);
        let none = Set { value: Vec::new(), at: None };
        let rules = self.headers.as_ref().unwrap_or(&none);
        resolver
            .find(rules, |value, names, setting| {
                HeaderRules::resolve(defaults, value, names, setting)
            })
            .unwrap_or_default()
    }

    fn format(&self, resolver: &mut Resolver<'_>, has_registry: bool) -> Format {
        let value = self.value.as_ref().map_or(ValueFormat::Raw, |set| set.value);
        let defaults = Format::of(value);
        let event_type = match &self.event_type {
            Some(set) => resolver.template(set),
            None => self.needed_type().and_then(|set| resolver.template(&set)),
        };
        let source = self.source.as_ref().and_then(|set| resolver.template(set));
        if value.is_cloud_event() {
            self.check_cloud_event(value, resolver);
        }
        let schema = self.schema(resolver, has_registry);
        let event_type = event_type.unwrap_or(defaults.event_type);
        Format { value, event_type, source, schema }
    }

    /// Without a type there is no CloudEvent, so the default is as good as a setting: a table
    /// without that column is an error at start, and not one of each event.
    fn needed_type(&self) -> Option<Set<TypedTemplate>> {
        let Set { value: chosen, at: Some((_, origin)) } = self.value.as_ref()? else {
            return None;
        };
        let (path, default) = (keys::FORMAT_TYPE.path(), keys::FORMAT_TYPE.default_text()?);
        let at = Some((format!("{path} (by default {default})"), origin.clone()));
        let value = Template::parse(default).ok()?;
        chosen.is_cloud_event().then_some(Set { value, at })
    }

    fn check_cloud_event(&self, value: ValueFormat, resolver: &mut Resolver<'_>) {
        let chosen = self.value.as_ref().and_then(|set| set.at.as_ref());
        let (name, source) = (value.name(), keys::FORMAT_SOURCE.path());
        if let (Some((path, origin)), None) = (chosen, &self.source) {
            let message = format!(
                "{path} = {name}: CloudEvents need a source; set {source}, as in \"/shop/orders\" \
                 or \"https://shop.example/{{tenant}}\""
            );
            resolver.problem(Problem::at(origin, message));
        }
        let Some(Set { value: rules, at: Some((path, origin)) }) = &self.headers else { return };
        for HeaderRule { name: header, .. } in rules {
            let why = if header == DefaultHeader::ContentType.name() {
                "consumers recognize by this header how a CloudEvent is encoded, so it can't be \
                 changed; map the column content_type instead"
            } else if value == ValueFormat::CloudEventsStructured && header.starts_with("ce_") {
                "the attributes are in the value, and consumers would take the record for an \
                 event in binary mode; choose another name"
            } else if CLOUD_EVENT_HEADERS.contains(&header.as_str()) {
                "the format sets this attribute itself; choose another name"
            } else {
                continue;
            };
            let message = format!("{path}.{header}: in format {name}, {why}");
            resolver.problem(Problem::at(origin, message));
        }
    }

    fn schema(&self, resolver: &mut Resolver<'_>, has_registry: bool) -> Option<SchemaRules> {
        let id = self.schema_id.as_ref().and_then(|set| resolver.template(set));
        let topic_ids = self.schema_ids.as_ref().map(|set| set.value.iter().cloned().collect());
        let subject = match &self.subject {
            None if has_registry => Some(Subject::OfTopic),
            None | Some(Set { value: None, .. }) => None,
            Some(Set { value: Some(template), at }) => {
                if let (false, Some((path, origin))) = (has_registry, at) {
                    let registry = keys::FORMAT_REGISTRY.path();
                    let message =
                        format!("{path}: subjects are looked up in a registry; set {registry}");
                    resolver.problem(Problem::at(origin, message));
                }
                let set = Set { value: template.clone(), at: at.clone() };
                resolver.template(&set).map(Subject::Template)
            }
        };
        let place = self.schema_in.as_ref().map_or(FramePlace::Value, |set| set.value);
        if place == FramePlace::Header
            && let Some((path, origin)) = self.schema_in.as_ref().and_then(|set| set.at.as_ref())
            && (subject.is_none() || id.is_some() || topic_ids.is_some())
        {
            let message = format!(
                "{path} = header: the header has the schema's GUID, which only the registry knows; \
                 set format.registry, and neither format.schema_id nor format.schema_ids"
            );
            resolver.problem(Problem::at(origin, message));
        }
        if id.is_none() && topic_ids.is_none() && subject.is_none() {
            if let (Some(Set { at: Some((path, origin)), .. }), None) =
                (&self.message_index, &self.subject)
            {
                let message = format!(
                    "{path} says which message of a schema the values are, but there is no schema; \
                     set format.schema_id, format.schema_ids or format.registry"
                );
                resolver.problem(Problem::at(origin, message));
            }
            return None;
        }
        let message_index = self.message_index.as_ref().map(|set| set.value.clone());
        let frame = Frame { place, message_index: message_index.unwrap_or_default() };
        Some(SchemaRules { topic_ids: topic_ids.unwrap_or_default(), id, subject, frame })
    }
}

/// Finds columns, and notes what is wrong, each thing once although there are several tables.
struct Resolver<'a> {
    names: &'a mut ColumnNames,
    problems: &'a mut Vec<Problem>,
}

impl Resolver<'_> {
    fn problem(&mut self, problem: Problem) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn template(&mut self, set: &Set<TypedTemplate>) -> Option<Template> {
        self.find(set, |value, names, setting| value.resolve(names, setting))
    }

    fn keys(&mut self, set: Option<&Set<KeyList<ColumnRef>>>) -> Option<KeyList> {
        self.find(set?, |value, names, setting| value.resolve(names, setting))
    }

    fn find<T, U>(
        &mut self,
        set: &Set<T>,
        resolve: impl Fn(&T, &mut ColumnNames, Option<&str>) -> Result<U, String>,
    ) -> Option<U> {
        let setting = set.at.as_ref().map(|(path, _)| path.as_str());
        match (resolve(&set.value, self.names, setting), &set.at) {
            (Ok(resolved), _) => Some(resolved),
            (Err(column), Some((path, origin))) => {
                let message = format!(
                    "{path} names column {column}, which the table does not have: \
                     postgres.columns.{column} is empty"
                );
                self.problem(Problem::at(origin, message));
                None
            }
            // Defaults are left out where the table does not have them.
            (Err(_), None) => None,
        }
    }
}
