//! The readers, and Apicurio Registry.

mod cloudevents;
mod framed;
mod published;
mod record;
mod registries;
