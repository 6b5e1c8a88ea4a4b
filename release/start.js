#!/usr/bin/env node
"use strict";
// Runs the program that npm has installed for this system, in our place: with our streams,
// our signals, and its exit status as ours.
const { spawn } = require("node:child_process");
const os = require("node:os");
const tty = require("node:tty");

const name = `@dragoman-mcp/${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "dragoman.exe" : "dragoman";

function program() {
  try {
    return require.resolve(`${name}/bin/${file}`);
  } catch {
    console.error(`dragoman: the package ${name} is not installed. If there is one, install again without ` +
      "--omit=optional and --no-optional; for other systems see https://github.com/dragoman-mcp/dragoman.");
    process.exit(1);
  }
}

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });

// A terminal sends SIGINT to both of us, and a second one means "at once".
const terminal = [0, 1, 2].some((fd) => tty.isatty(fd));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) {
  process.on(signal, () => {
    if (!terminal || (signal !== "SIGINT" && signal !== "SIGQUIT")) child.kill(signal);
  });
}

child.on("error", (error) => {
  console.error(`dragoman: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  process.exit(signal ? 128 + os.constants.signals[signal] : code);
});
