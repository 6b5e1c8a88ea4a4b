//! A client of the official Rust SDK.
//!
//!     client REVISION URL
//!     client REVISION COMMAND [ARGUMENT...]
//!
//! It connects over Streamable HTTP, or to the command over stdio. It is driven by lines of JSON
//! on standard input, as ../ts/drive.mjs says.
#![allow(deprecated)] // sampling, roots and logging

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use rmcp::{
    ClientHandler, ErrorData, RoleClient, ServiceError,
    model::*,
    service::{
        ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RunningService,
    },
    transport::{
        StreamableHttpClientTransport, TokioChildProcess,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    sync::oneshot,
    task::AbortHandle,
};

/// The driver's side of the conversation.
#[derive(Default)]
struct State {
    asked: u64,
    questions: HashMap<u64, oneshot::Sender<Value>>,
    /// The progress tokens of the calls in flight, by the number of the call. The SDK sends
    /// tokens of its own and does not tell which.
    tokens: BTreeMap<u64, Value>,
    calls: HashMap<u64, AbortHandle>,
}

#[derive(Clone)]
struct Driver {
    revision: ProtocolVersion,
    state: Arc<Mutex<State>>,
}

type Service = RunningService<RoleClient, Driver>;

fn say(line: Value) {
    println!("{line}");
}

fn tell(method: &str, params: impl Serialize) {
    say(json!({"method": method, "params": params}));
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|e| ErrorData::invalid_params(e.to_string(), None))
}

impl Driver {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Passes a request of the server on to the driver, and waits for its answer.
    async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize,
    ) -> Result<T, ErrorData> {
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut state = self.state();
            state.asked += 1;
            let number = state.asked;
            state.questions.insert(number, answer);
            number
        };
        say(json!({"ask": number, "method": method, "params": params}));
        read(
            answered
                .await
                .map_err(|e| ErrorData::internal_error(e.to_string(), None))?,
        )
    }
}

impl ClientHandler for Driver {
    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.ask("sampling/createMessage", params).await
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        self.ask("roots/list", json!({})).await
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.ask("elicitation/create", params).await
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let mut line = json!(params);
        let tokens: Vec<Value> = self.state().tokens.values().cloned().collect();
        if let [token] = tokens.as_slice() {
            line["progressToken"] = token.clone();
        }
        tell("notifications/progress", line);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        tell("notifications/message", params);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        tell("notifications/resources/updated", params);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        tell("notifications/resources/list_changed", json!({}));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        tell("notifications/tools/list_changed", json!({}));
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        tell("notifications/prompts/list_changed", json!({}));
    }

    fn get_info(&self) -> ClientConfig {
        let capabilities =
            json!({"sampling": {}, "roots": {}, "elicitation": {"form": {}, "url": {}}});
        ClientConfig::new(
            serde_json::from_value(capabilities).unwrap(),
            Implementation::new("rust-sdk", "3"),
        )
        .with_protocol_version(self.revision.clone())
    }
}

/// Calls a method by the name that it has in the TypeScript SDK.
async fn run(client: &Service, method: &str, params: Value) -> Result<Value, ServiceError> {
    fn of<T: DeserializeOwned>(params: Value) -> Result<T, ServiceError> {
        read(params).map_err(ServiceError::McpError)
    }
    Ok(match method {
        "callTool" => json!(client.call_tool(of(params)?).await?),
        "listTools" => json!(client.list_tools(None).await?),
        "listResources" => json!(client.list_resources(None).await?),
        "listPrompts" => json!(client.list_prompts(None).await?),
        "readResource" => json!(client.read_resource(of(params)?).await?),
        "getPrompt" => json!(client.get_prompt(of(params)?).await?),
        "complete" => json!(client.complete(of(params)?).await?),
        "setLoggingLevel" => json!(client.set_level(of(params)?).await?),
        "subscribeResource" => json!(client.subscribe(of(params)?).await?),
        "unsubscribeResource" => json!(client.unsubscribe(of(params)?).await?),
        "ping" => json!(
            client
                .send_request(ClientRequest::PingRequest(Default::default()))
                .await?
        ),
        "listen" => {
            let mut subscription = client.listen(of(params)?).await?;
            tokio::spawn(async move {
                while let Ok(Some(notification)) = subscription.next().await {
                    say(json!(notification));
                }
            });
            json!({})
        }
        _ => {
            return Err(ServiceError::McpError(ErrorData::invalid_request(
                format!("unknown method {method}"),
                None,
            )));
        }
    })
}

/// Makes a call, of which dropping it, as SDKs of Rust do, is the cancellation.
async fn call(client: Arc<Service>, id: u64, method: String, params: Value) {
    let token = params.pointer("/_meta/progressToken").cloned();
    if let Some(token) = token {
        client.service().state().tokens.insert(id, token);
    }
    match run(&client, &method, params).await {
        Ok(result) => say(json!({"id": id, "result": result})),
        Err(ServiceError::McpError(e)) => say(json!({"id": id, "error": e})),
        Err(e) => say(json!({"id": id, "error": {"code": 0, "message": e.to_string()}})),
    }
    let mut state = client.service().state();
    state.tokens.remove(&id);
    state.calls.remove(&id);
}

async fn connect(revision: &str, target: &[String]) -> Result<Service, Box<dyn Error>> {
    let revision: ProtocolVersion = serde_json::from_value(json!(revision))?;
    let lifecycle = if revision.has_initialize() {
        ClientLifecycleMode::Initialize
    } else {
        ClientLifecycleMode::Discover {
            preferred_versions: vec![revision.clone()],
        }
    };
    let driver = Driver {
        revision,
        state: Default::default(),
    };
    if target[0].starts_with("http") {
        let config = StreamableHttpClientTransportConfig::with_uri(target[0].as_str());
        let transport = StreamableHttpClientTransport::from_config(config);
        return Ok(driver.serve_with_lifecycle(transport, lifecycle).await?);
    }
    let mut command = tokio::process::Command::new(&target[0]);
    command.args(&target[1..]);
    Ok(driver
        .serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle)
        .await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let client = Arc::new(connect(&args[0], &args[1..]).await?);
    let server = client
        .peer_info()
        .ok_or("the server says nothing of itself")?;
    say(
        json!({"id": 0, "result": {"server": server.server_info, "revision": server.protocol_version}}),
    );
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(text) = lines.next_line().await? {
        let line: Value = serde_json::from_str(&text)?;
        let mut state = client.service().state();
        if let Some(id) = line["cancel"].as_u64() {
            state.tokens.remove(&id);
            if let Some(call) = state.calls.remove(&id) {
                call.abort();
            }
        } else if let Some(number) = line["answer"].as_u64() {
            if let Some(answer) = state.questions.remove(&number) {
                let _ = answer.send(line["result"].clone()); // the call may have ended
            }
        } else if let (Some(id), Some(method)) = (line["id"].as_u64(), line["method"].as_str()) {
            let task = tokio::spawn(call(
                client.clone(),
                id,
                method.to_owned(),
                line["params"].clone(),
            ));
            state.calls.insert(id, task.abort_handle());
        }
    }
    client
        .service()
        .state()
        .calls
        .drain()
        .for_each(|(_, call)| call.abort());
    while Arc::strong_count(&client) > 1 {
        tokio::time::sleep(Duration::from_millis(1)).await; // until they have ended
    }
    if let Some(mut client) = Arc::into_inner(client) {
        client.close().await?;
    }
    Ok(())
}
