// A client of the TypeScript SDK.
//
//   node client.mjs SDK COMMAND [ARGUMENT...]
//   node client.mjs SDK URL [REVISION]
//
// SDK is the folder of @modelcontextprotocol/sdk, COMMAND starts the server. One
// at a URL is reached by WebSocket if that begins with ws:, over HTTP+SSE if it
// ends in /sse, otherwise over Streamable HTTP, at the SDK's newest revision if
// none is given. It is driven as drive.mjs says.
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { ask, drive, say } from "./drive.mjs";

const [sdk, command, ...args] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(sdk, "dist", "esm", file)));
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { SSEClientTransport } = await load("client/sse.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { WebSocketClientTransport } = await load("client/websocket.js");
const types = await load("types.js");

const client = new Client(
  { name: "typescript-sdk", version: "1" },
  { capabilities: { sampling: {}, roots: {}, elicitation: { form: {}, url: {} } } },
);
client.setRequestHandler(types.CreateMessageRequestSchema, ask);
client.setRequestHandler(types.ElicitRequestSchema, ask);
client.setRequestHandler(types.ListRootsRequestSchema, ask);
client.fallbackNotificationHandler = async (note) => say(note);
// In place of the SDK's own handler, which loses progress that comes right
// before the result: it is looked at only after the result has been.
client.setNotificationHandler(types.ProgressNotificationSchema, say);

function run(method, params, options) {
  switch (method) {
    case "callTool":
      return client.callTool(params, undefined, options);
    case "setLoggingLevel":
      return client.setLoggingLevel(params.level, options);
    case "ping":
      return client.ping(options);
  }
  return client[method](params, options);
}

let transport;
if (/^(http|ws):/.test(command)) {
  const Transport = command.startsWith("ws:")
    ? WebSocketClientTransport
    : command.endsWith("/sse")
      ? SSEClientTransport
      : StreamableHTTPClientTransport;
  transport = new Transport(new URL(command));
  if (args.length > 0) {
    // The SDK always asks for its newest revision.
    const send = transport.send.bind(transport);
    transport.send = (message, options) => {
      if (message.method === "initialize") {
        message = { ...message, params: { ...message.params, protocolVersion: args[0] } };
      }
      return send(message, options);
    };
  }
} else {
  transport = new StdioClientTransport({ command, args, stderr: "inherit" });
}
let revision;
const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  revision = version;
  setProtocolVersion?.(version);
};
await client.connect(transport);
await drive({ server: client.getServerVersion(), revision }, run);
await transport.terminateSession?.();
await client.close();
