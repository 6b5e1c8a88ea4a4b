// A client is driven by lines of JSON on standard input.
//
//   in   {"id":1,"method":"callTool","params":{...}}  call a method of the client
//        {"cancel":1}                                 cancel that call
//        {"answer":1,"result":{...}}                  answer a question
//   out  {"id":1,"result":{...}}                      a call has a result
//        {"id":1,"error":{...}}                       or failed
//        {"ask":1,"method":"...","params":{...}}      the server asks
//        {"method":"...","params":{...}}              the server tells
//
// The first line out has the id 0: the client is connected.
import { createInterface } from "node:readline";

export const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

const questions = new Map();
let asked = 0;

// ask is the client's handler of the server's requests.
export const ask = ({ method, params }) =>
  new Promise((resolve) => {
    questions.set(++asked, resolve);
    say({ ask: asked, method, params: params ?? {} });
  });

const calls = new Map();
async function call({ id, method, params }, run) {
  const abort = new AbortController();
  calls.set(id, abort);
  try {
    say({ id, result: await run(method, params, { signal: abort.signal }) });
  } catch (error) {
    say({ id, error: { code: Number(error.code) || 0, message: String(error.message ?? error), data: error.data } });
  }
  calls.delete(id);
}

// drive makes calls by run until standard input ends. What begins is said first.
export async function drive(begins, run) {
  say({ id: 0, result: begins });
  for await (const text of createInterface({ input: process.stdin })) {
    const line = JSON.parse(text);
    if (line.cancel !== undefined) {
      calls.get(line.cancel)?.abort("cancelled by the test");
    } else if (line.answer !== undefined) {
      questions.get(line.answer)(line.result);
      questions.delete(line.answer);
    } else {
      call(line, run); // not awaited: calls run side by side
    }
  }
}
