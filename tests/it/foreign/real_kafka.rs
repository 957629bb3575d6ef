//! The readers, and Apicurio Registry.

mod cloudevents;
mod framed;
mod record;
mod registries;
