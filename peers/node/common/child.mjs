// A server process for the clients that bring no process transport of their own.
import { spawn } from "node:child_process";
import { Writable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { saw } from "./observe.mjs";

/** The spawned server; `input` can hold back what is written and let it go in one write. */
export class Child {
  #held;

  constructor(command, args) {
    this.process = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
    this.process.stdin.on("error", () => {});
    this.output = this.process.stdout;
    this.exited = new Promise((resolve) => {
      this.process.on("close", (code, signal) => {
        saw("exit", { code, signal });
        resolve();
      });
    });
    this.input = new Writable({
      write: (chunk, _encoding, done) => {
        if (this.#held) this.#held.push(chunk);
        else this.process.stdin.write(chunk);
        done();
      },
    });
  }

  async together(act) {
    this.#held = [];
    act();
    for (let round = 0; round < 5; round += 1) await turn();
    const held = this.#held;
    this.#held = undefined;
    this.process.stdin.write(Buffer.concat(held));
  }

  async close() {
    this.process.stdin.end();
    await this.exited;
  }
}
