// The door of the client: sessions on a server, over HTTP. Runs wherever there is `fetch`.

export type { ClientErrorReason } from "./errors.ts";
export type { ClientOptions, ClientTurn, EverturnClient, TurnOptions } from "./types.ts";

export { createClient } from "./client.ts";
export { ClientError } from "./errors.ts";
