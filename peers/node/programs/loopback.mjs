// For a gateway that listens on every address at a port it is given: `node --import` this, and it listens on the
// loopback at a port that is free, and says which one in the file named by RESCIND_ADDRESS.
import { renameSync, writeFileSync } from "node:fs";
import { Server } from "node:net";

const file = process.env.RESCIND_ADDRESS;
const { listen } = Server.prototype;

Server.prototype.listen = function (port, ...rest) {
  const done = rest.findLast((argument) => typeof argument === "function");
  return listen.call(this, 0, "127.0.0.1", () => {
    writeFileSync(`${file}.new`, `http://127.0.0.1:${this.address().port}`);
    renameSync(`${file}.new`, file);
    done?.();
  });
};
