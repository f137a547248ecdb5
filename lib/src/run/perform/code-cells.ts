// What a turn with the code protocol needs besides the code of every turn. It is loaded on demand (on-demand.ts).

export { codeProtocol } from "../../kernel/internal.ts";
export { performCode } from "./code.ts";
