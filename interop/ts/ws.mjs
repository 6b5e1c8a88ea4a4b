// A WebSocket of npm's ws between standard input and output.
//
//   node ws.mjs FOLDER URL [SUBPROTOCOL]
//
// FOLDER has the package. A line in is a text message, and a message is a line
// out. Lines in that begin with ! are commands, and lines on standard error tell
// what the socket does:
//
//   in   !ping  !binary
//   err  !open SUBPROTOCOL  !pong  !pinged  !close CODE REASON
//
// The end of standard input closes the socket.
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, url, subprotocol] = process.argv.slice(2);
const { default: WebSocket } = await import(pathToFileURL(join(folder, "ws", "wrapper.mjs")));

const tell = (line) => process.stderr.write(`!${line}\n`);
const socket = new WebSocket(url, subprotocol ? [subprotocol] : []);
socket.on("message", (data) => process.stdout.write(data + "\n"));
socket.on("pong", () => tell("pong"));
socket.on("ping", () => tell("pinged"));
socket.on("error", (error) => tell(`error ${error.message}`));
const over = new Promise((resolve) =>
  socket.on("close", (code, reason) => {
    tell(`close ${code} ${reason}`);
    resolve();
  }),
);
await new Promise((resolve) => socket.on("open", resolve));
tell(`open ${socket.protocol}`);

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  switch (line) {
    case "!ping":
      return socket.ping();
    case "!binary":
      return socket.send(Buffer.from([1, 2, 3]));
    default:
      return socket.send(line);
  }
});
lines.on("close", () => socket.close(1000));
await over;
process.exit(0);
