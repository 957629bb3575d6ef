//! A relay whose broker does not answer says so, and does not say so too soon.

mod real_kafka;
