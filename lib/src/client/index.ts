// The door of the client: sessions on a server, over HTTP. Runs wherever there is `fetch`.

export type { ClientErrorReason } from "./errors.ts";
export type {
  AnswerOptions,
  BeginOptions,
  CallOptions,
  ClientOptions,
  ClientRetry,
  ClientTurn,
  Completed,
  DecisionAnswer,
  DriveOptions,
  EverturnClient,
  ExportedTurn,
  PageOptions,
  TokenAnswer,
  TurnOptions,
  UserInput,
  WatchOptions,
} from "./types.ts";

export { createClient } from "./client.ts";
export { ClientError, clientErrorReasons } from "./errors.ts";
