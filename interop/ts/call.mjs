// Calls the tools of a server over plain HTTP by fetch, and writes what comes of
// each call as a line of JSON.
//
//   node call.mjs URL
const url = process.argv[2];
const say = (...line) => console.log(JSON.stringify(line));

async function post(path, body, accept = "application/json") {
  const response = await fetch(url + path, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: accept },
    body: JSON.stringify(body),
  });
  return [response.status, await response.text()];
}

const listed = await (await fetch(url)).json();
say("list", listed.tools.some(({ name }) => name === "echo"));

let [status, text] = await post("", { jsonrpc: "2.0", id: "ü", method: "tools/call", params: { name: "echo", arguments: { text: "grüße" } } });
let answer = JSON.parse(text);
say("echo", status, answer.id, answer.result.content[0].text);

[status, text] = await post("/add", { a: 2, b: 40 });
say("add", status, JSON.parse(text).structuredContent.sum);

[status, text] = await post("/none", {});
say("none", status, JSON.parse(text).error.code);

[status, text] = await post("/slow", { ms: 20, steps: 2 }, "text/event-stream");
const events = Array.from(text.matchAll(/event: (.*)\ndata: (.*)\n\n/g), ([, name, data]) => [name, JSON.parse(data)]);
say("slow", status, ...events.map(([name, data]) => name + ": " + (data.result ?? data).content[0].text));
