// What a server of the crossings has, whatever its era. crossGoServer in
// cross_gosdk_test.go has the same.
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";

const text = (text) => ({ content: [{ type: "text", text }] });
const name = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };

// Each has the call: its text and signal, and functions that tell the client
// (notify), ask it (ask), and say what changed (changed, touched).
const tools = {
  echo: async (call) => text(call.text),
  fail: async () => ({ ...text("as asked"), isError: true }),
  progress: async ({ notify, progressToken }) => {
    for (let progress = 1; progress <= 3; progress++) {
      await notify("notifications/progress", { progressToken, progress, total: 3 });
    }
    return text("three times");
  },
  log: async (call) => {
    await call.notify("notifications/message", { level: "info", data: call.text });
    return text("logged");
  },
  sample: async ({ ask }) => {
    const question = { role: "user", content: { type: "text", text: "What is the capital?" } };
    return text((await ask("sampling/createMessage", { messages: [question], maxTokens: 100 })).content.text);
  },
  elicit: async (call) => {
    const answer = await call.ask("elicitation/create", { message: call.text, requestedSchema: name });
    return text(`${answer.action} ${answer.content?.name ?? ""}`.trim());
  },
  roots: async ({ ask }) => text((await ask("roots/list", {})).roots[0].uri),
  change: async ({ changed }) => {
    await changed();
    return text("changed");
  },
  touch: async ({ touched }) => {
    await touched("test://watched");
    return text("touched");
  },
  wait: async (call) => {
    note(`began ${call.text}`);
    await new Promise((resolve) => call.signal.addEventListener("abort", resolve));
    note(`cancelled ${call.text}`);
    return text("cancelled");
  },
};

const note = (line) => appendFileSync(process.env.CROSS_JOURNAL, line + "\n");

export const capabilities = {
  tools: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
  prompts: {},
  completions: {},
  logging: {},
};

// handlers has a function of params and call for each method.
export const handlers = {
  "tools/list": () => ({
    tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: "object", properties: { text: { type: "string" } } } })),
  }),
  "tools/call": ({ name, arguments: args }, call) => tools[name]({ ...call, text: args?.text ?? "" }),
  "resources/list": () => ({ resources: ["test://text", "test://watched"].map((uri) => ({ uri, name: uri })) }),
  "resources/read": ({ uri }) => ({ contents: [{ uri, text: "some text" }] }),
  "prompts/list": () => ({ prompts: [{ name: "greet", arguments: [{ name: "name", required: true }] }] }),
  "prompts/get": (params) => ({
    messages: [{ role: "user", content: { type: "text", text: `Greet ${params.arguments.name}.` } }],
  }),
  "completion/complete": ({ argument }) => ({
    completion: { values: ["paris", "park", "party"].filter((v) => v.startsWith(argument.value)) },
  }),
};

// listen serves on a free port until an interrupt.
export function listen(handle, close) {
  const web = createServer(handle);
  web.listen(0, "127.0.0.1", () => console.error(`ready: http://127.0.0.1:${web.address().port}`));
  process.once("SIGINT", () => {
    close?.();
    web.close();
    web.closeAllConnections();
  });
}
