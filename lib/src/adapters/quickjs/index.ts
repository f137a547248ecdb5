// The door of the sandbox. Apart from the other adapters, because it stands on an optional peer.

export { quickjs } from "./quickjs.ts";
