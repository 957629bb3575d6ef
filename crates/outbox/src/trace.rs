//! The trace in which an event is written.

/// The W3C trace context of the current tracing span, or of the current OpenTelemetry context.
#[cfg(feature = "opentelemetry")]
pub(super) fn current() -> Option<String> {
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;
    // The span is more precise: it need not be OpenTelemetry's current one.
    traceparent(&tracing::Span::current().context())
        .or_else(|| traceparent(&opentelemetry::Context::current()))
}

#[cfg(feature = "opentelemetry")]
fn traceparent(context: &opentelemetry::Context) -> Option<String> {
    use opentelemetry::trace::TraceContextExt as _;
    let span = context.span();
    let span = span.span_context();
    let flags = span.trace_flags().to_u8();
    span.is_valid().then(|| format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id()))
}

#[cfg(not(feature = "opentelemetry"))]
pub(super) fn current() -> Option<String> {
    None
}
