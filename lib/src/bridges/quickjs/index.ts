// Entry point `everturn/quickjs`: the JavaScript sandbox. It is separate from the other adapters because it needs
// optional peer dependencies.

export { quickjs } from "./quickjs.ts";
