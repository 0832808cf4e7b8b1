// The example agent that came with the SDK, as it is; older Node has its random numbers, but not under this name.
import { webcrypto } from "node:crypto";

globalThis.crypto ??= webcrypto;
await import("./node_modules/@agentclientprotocol/sdk/dist/examples/agent.js");
