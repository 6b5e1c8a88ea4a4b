// A client of the TypeScript SDK, driven by lines of JSON on standard input.
//
//   node client.mjs SDK COMMAND [ARGUMENT...]
//   node client.mjs SDK URL [REVISION]
//
// SDK is the folder of @modelcontextprotocol/sdk, COMMAND starts the server. One
// at a URL is reached by WebSocket if that begins with ws:, over HTTP+SSE if it
// ends in /sse, otherwise over Streamable HTTP, at the SDK's newest revision if
// none is given.
//
//   in   {"id":1,"method":"callTool","params":{...}}  call a method of the client
//        {"cancel":1}                                 cancel that call
//        {"answer":1,"result":{...}}                  answer a question
//   out  {"id":1,"result":{...}}                      a call has a result
//        {"id":1,"error":{...}}                       or failed
//        {"ask":1,"method":"...","params":{...}}      the server asks
//        {"method":"...","params":{...}}              the server tells
//
// The end of standard input ends the conversation.
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [sdk, command, ...args] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(sdk, "dist", "esm", file)));
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { SSEClientTransport } = await load("client/sse.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { WebSocketClientTransport } = await load("client/websocket.js");
const types = await load("types.js");

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

const client = new Client(
  { name: "typescript-sdk", version: "1" },
  { capabilities: { sampling: {}, roots: {}, elicitation: { form: {}, url: {} } } },
);

const questions = new Map();
let asked = 0;
const ask = ({ method, params }) =>
  new Promise((resolve) => {
    questions.set(++asked, resolve);
    say({ ask: asked, method, params: params ?? {} });
  });
client.setRequestHandler(types.CreateMessageRequestSchema, ask);
client.setRequestHandler(types.ElicitRequestSchema, ask);
client.setRequestHandler(types.ListRootsRequestSchema, ask);
client.fallbackNotificationHandler = async (note) => say(note);
// In place of the SDK's own handler, which loses progress that comes right
// before the result: it is looked at only after the result has been.
client.setNotificationHandler(types.ProgressNotificationSchema, say);

const calls = new Map();
async function call({ id, method, params }) {
  const abort = new AbortController();
  calls.set(id, abort);
  const options = { signal: abort.signal };
  try {
    const result =
      method === "callTool"
        ? await client.callTool(params, undefined, options)
        : method === "setLoggingLevel"
          ? await client.setLoggingLevel(params.level, options)
          : method === "ping"
            ? await client.ping(options)
            : await client[method](params, options);
    say({ id, result });
  } catch (error) {
    say({ id, error: { code: error.code ?? 0, message: String(error.message ?? error), data: error.data } });
  }
  calls.delete(id);
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
say({ id: 0, result: { server: client.getServerVersion(), revision } });
for await (const text of createInterface({ input: process.stdin })) {
  const line = JSON.parse(text);
  if (line.cancel !== undefined) {
    calls.get(line.cancel)?.abort("cancelled by the test");
  } else if (line.answer !== undefined) {
    questions.get(line.answer)(line.result);
    questions.delete(line.answer);
  } else {
    call(line); // not awaited: calls run side by side
  }
}
await transport.terminateSession?.();
await client.close();
