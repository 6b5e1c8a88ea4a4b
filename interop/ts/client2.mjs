// A client of version 2 of the TypeScript SDK over Streamable HTTP.
//
//   node client2.mjs SDK URL REVISION
//
// SDK is the folder of @modelcontextprotocol/client. If REVISION is auto, the
// client finds out what the server speaks. It is driven by lines of JSON on
// standard input, as client.mjs is.
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [sdk, url, revision] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = await import(pathToFileURL(join(sdk, "dist", "index.mjs")));

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

const client = new Client(
  { name: "typescript-sdk", version: "2" },
  {
    capabilities: { sampling: {}, roots: {}, elicitation: { form: {}, url: {} } },
    versionNegotiation: { mode: revision === "auto" ? "auto" : revision >= "2026" ? { pin: revision } : "legacy" },
  },
);

const questions = new Map();
let asked = 0;
const ask = ({ method, params }) =>
  new Promise((resolve) => {
    questions.set(++asked, resolve);
    say({ ask: asked, method, params: params ?? {} });
  });
for (const method of ["sampling/createMessage", "elicitation/create", "roots/list"]) {
  client.setRequestHandler(method, ask);
}
client.fallbackNotificationHandler = async (note) => say(note);
client.setNotificationHandler("notifications/progress", say);

const calls = new Map();
async function call({ id, method, params }) {
  const abort = new AbortController();
  calls.set(id, abort);
  const options = { signal: abort.signal };
  try {
    let result;
    if (method === "listen") {
      await client.listen(params);
      result = {};
    } else if (method === "setLoggingLevel") {
      result = await client.setLoggingLevel(params.level, options);
    } else if (method === "ping") {
      result = await client.ping(options);
    } else if (method.startsWith("list")) {
      result = await client[method](undefined, { ...options, cacheMode: "refresh" });
    } else {
      result = await client[method](params, options);
    }
    say({ id, result });
  } catch (error) {
    say({ id, error: { code: error.code > 0 || error.code < 0 ? error.code : 0, message: String(error.message ?? error) } });
  }
  calls.delete(id);
}

const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
say({ id: 0, result: { server: client.getServerVersion(), revision: client.getNegotiatedProtocolVersion() } });
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
await transport.terminateSession();
await client.close();
