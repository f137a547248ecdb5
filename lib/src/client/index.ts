// Entry point `everturn/client`: a client for `everturn/http`. Runs wherever `fetch` exists.

export type { ClientErrorReason } from "./errors.ts";
export type { ClientOptions, ClientTurn, EverturnClient, TurnOptions } from "./types.ts";

export { createClient } from "./client.ts";
export { ClientError } from "./errors.ts";
