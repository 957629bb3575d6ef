//! The interface: <https://docs.confluent.io/platform/current/schema-registry/develop/api.html>.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::store::{Answer, Refusal};
use super::{Login, Mode, Shared};

type Registry = State<Arc<Shared>>;

pub(super) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/subjects", get(subjects))
        .route("/subjects/{subject}", post(look_up))
        .route("/subjects/{subject}/versions", get(versions).post(register))
        .route("/subjects/{subject}/versions/{version}", get(version))
        .route("/schemas/ids/{id}", get(schema_of_id))
        .route("/schemas/guids/{guid}", get(schema_of_guid))
        .fallback(|| async { answer(404, &error(404, "HTTP 404 Not Found")) })
        .layer(from_fn_with_state(Arc::clone(&shared), admit))
        .with_state(shared)
}

/// Notes the request, and lets it through as far as its login and the mode allow.
async fn admit(State(shared): Registry, request: Request<Body>, next: Next) -> Response {
    let line = format!("{} {}", request.method(), request.uri());
    shared.requests.lock().unwrap().push(line);
    // An error means that the sender is gone, and we have it.
    let mut mode = shared.mode.subscribe();
    let mode = mode.wait_for(|mode| *mode != Mode::Hold).await.unwrap().clone();
    if let Mode::Answer(status, body) = mode {
        return answer(status, &body);
    }
    let expected = shared.login.as_ref().map(Login::header);
    let presented = request.headers().get(AUTHORIZATION);
    if expected.is_some_and(|expected| presented.is_none_or(|it| it != expected.as_str())) {
        let challenge = [(WWW_AUTHENTICATE, "Basic realm=\"registry\"")];
        return (challenge, answer(401, &error(401, "Unauthorized"))).into_response();
    }
    next.run(request).await
}

async fn subjects(State(shared): Registry) -> Response {
    show(Ok(shared.store().subjects()))
}

async fn register(State(shared): Registry, Path(subject): Path<String>, body: String) -> Response {
    show(parse(&body).and_then(|request| shared.store().register(&subject, &request)))
}

async fn look_up(State(shared): Registry, Path(subject): Path<String>, body: String) -> Response {
    show(parse(&body).and_then(|request| shared.store().look_up(&subject, &request)))
}

async fn versions(State(shared): Registry, Path(subject): Path<String>) -> Response {
    show(shared.store().versions(&subject))
}

async fn version(
    State(shared): Registry,
    Path((subject, version)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    show(shared.store().version(&subject, &version, format(query.as_deref())))
}

async fn schema_of_id(
    State(shared): Registry,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    show(shared.store().schema_of_id(&id, format(query.as_deref())))
}

async fn schema_of_guid(
    State(shared): Registry,
    Path(guid): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    show(shared.store().schema_of_guid(&guid, format(query.as_deref())))
}

fn format(query: Option<&str>) -> &str {
    let parameters = query.unwrap_or_default().split('&');
    parameters.filter_map(|parameter| parameter.strip_prefix("format=")).next().unwrap_or_default()
}

fn parse(body: &str) -> Result<Value, Refusal> {
    serde_json::from_str(body).map_err(|error| Refusal {
        status: 400,
        code: 400,
        message: error.to_string(),
    })
}

fn show(outcome: Answer) -> Response {
    match outcome {
        Ok(value) => answer(200, &value.to_string()),
        Err(refusal) => answer(refusal.status, &error(refusal.code, &refusal.message)),
    }
}

fn error(code: u32, message: &str) -> String {
    json!({ "error_code": code, "message": message }).to_string()
}

fn answer(status: u16, body: &str) -> Response {
    let status = StatusCode::from_u16(status).expect("not a status of HTTP");
    let kind = [(CONTENT_TYPE, "application/vnd.schemaregistry.v1+json")];
    (status, kind, body.to_owned()).into_response()
}
