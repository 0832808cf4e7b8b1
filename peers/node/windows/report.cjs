// Preloaded into Node on Windows (NODE_OPTIONS): a connection to the test, which closes when the process ends.
const socket = require("node:net").connect(Number(process.env.REPORT_PORT), "127.0.0.1");
socket.unref();
socket.on("error", () => {});
socket.write(`${JSON.stringify({ role: "node", words: process.argv.slice(2) })}\n`);
