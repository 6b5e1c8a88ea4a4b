// A client of version 2 of the TypeScript SDK.
//
//   node cross_client2.mjs SDK REVISION URL
//   node cross_client2.mjs SDK REVISION COMMAND [ARGUMENT...]
//
// SDK is the folder of @modelcontextprotocol/client. It is driven by lines of JSON
// on standard input, as client.mjs is.
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [sdk, revision, command, ...args] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(sdk, "dist", file)));
const { Client, StreamableHTTPClientTransport } = await load("index.mjs");
const { StdioClientTransport } = await load("stdio.mjs");

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

const client = new Client(
  { name: "typescript-sdk", version: "2" },
  {
    capabilities: { sampling: {}, roots: {}, elicitation: { form: {}, url: {} } },
    versionNegotiation: { mode: revision >= "2026" ? { pin: revision } : "legacy" },
  },
);

const questions = [];
const ask = ({ method, params }) =>
  new Promise((resolve) => {
    const number = questions.push(resolve);
    say({ ask: number, method, params: params ?? {} });
  });
for (const method of ["sampling/createMessage", "elicitation/create", "roots/list"]) {
  client.setRequestHandler(method, ask);
}
client.fallbackNotificationHandler = async (note) => say(note);
client.setNotificationHandler("notifications/progress", say);

const methods = {
  listen: async (params) => {
    await client.listen(params);
    return {};
  },
  setLoggingLevel: (params, options) => client.setLoggingLevel(params.level, options),
  ping: (_, options) => client.ping(options),
};

const calls = new Map();
async function call({ id, method, params }) {
  const abort = new AbortController();
  calls.set(id, abort);
  const run = methods[method] ?? ((params, options) => client[method](params, options));
  const given = method.startsWith("list") && method !== "listen" ? undefined : params;
  try {
    say({ id, result: await run(given, { signal: abort.signal, cacheMode: "refresh" }) });
  } catch (error) {
    say({ id, error: { code: Number(error.code) || 0, message: String(error.message ?? error) } });
  }
  calls.delete(id);
}

const transport = /^http:/.test(command)
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args, stderr: "inherit" });
await client.connect(transport);
say({ id: 0, result: { server: client.getServerVersion(), revision: client.getNegotiatedProtocolVersion() } });
for await (const text of createInterface({ input: process.stdin })) {
  const line = JSON.parse(text);
  if (line.cancel !== undefined) {
    calls.get(line.cancel)?.abort("cancelled by the test");
  } else if (line.answer !== undefined) {
    questions[line.answer - 1](line.result);
  } else {
    call(line); // not awaited: calls run side by side
  }
}
await transport.terminateSession?.();
await client.close();
