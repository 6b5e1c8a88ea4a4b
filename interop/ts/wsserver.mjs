// A server on a free port, with the WebSockets of npm's ws.
//
//   node wsserver.mjs FOLDER COMMAND [ARGUMENT...]
//
// FOLDER has the package. What is spoken depends on the path:
//
//   /mcp    JSON-RPC, which COMMAND answers, one process for each socket
//   /noise  the same, and much beside it that nobody has asked for
//   /tools  tool frames: echo; extensions, which tells those of the socket;
//           wait, which is not answered; waiting, which counts those; others
//           are unknown. Answers come in any order, with noise.
//
// A message with "drop" in it cuts the connection, one with "leave" in it closes
// the socket with code 1011.
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, command, ...args] = process.argv.slice(2);
const { WebSocketServer } = await import(pathToFileURL(join(folder, "ws", "wrapper.mjs")));

const noise = (socket) => {
  socket.ping("noise");
  socket.pong("noise");
  socket.send('{"type":"ping"}');
  socket.send('{"jsonrpc":"2.0","method":"notifications/noise","params":{}}');
  socket.send('{"jsonrpc":"2.0","id":"noise","result":{}}');
};

function relay(socket, loud) {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  createInterface({ input: child.stdout }).on("line", (line) => {
    if (loud) {
      noise(socket);
    }
    socket.send(line);
  });
  socket.on("close", () => child.kill("SIGKILL")); // it would wait for the calls under way
  return (text) => child.stdin.write(text + "\n");
}

function tools(socket) {
  let waiting = 0;
  const known = { echo: ({ text }) => text, extensions: () => socket.extensions, waiting: () => String(waiting) };
  return (text) => {
    const { id, name, arguments: given } = JSON.parse(text);
    if (name === "wait") {
      waiting++;
      return;
    }
    const answer = known[name]
      ? { result: { content: [{ type: "text", text: known[name](given) }] } }
      : { error: { code: -32602, message: `there is no tool ${name}` } };
    setTimeout(() => {
      noise(socket);
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
    }, Math.random() * 10);
  };
}

const web = createServer();
const sockets = new WebSocketServer({ server: web, perMessageDeflate: { threshold: 0 } });
sockets.on("connection", (socket, { url }) => {
  const take = url === "/tools" ? tools(socket) : relay(socket, url === "/noise");
  socket.on("error", () => {}); // close follows
  socket.on("message", (data) => {
    const text = String(data);
    if (text.includes('"drop"')) {
      socket.terminate();
    } else if (text.includes('"leave"')) {
      socket.close(1011, "as asked");
    } else {
      take(text);
    }
  });
});
web.listen(0, "127.0.0.1", () => console.error(`ready: ws://127.0.0.1:${web.address().port}`));
process.once("SIGINT", () => {
  sockets.clients.forEach((socket) => socket.terminate());
  web.close();
});
