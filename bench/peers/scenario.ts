// What the mock provider streams. The name of the model selects it:
//   deltas-N       N text deltas, as fast as the socket takes them
//   loop-T         T rounds with one tool call each, then a short text
//   paced-N-MS     one delta, then, after `GET /go`, N deltas, one every MS milliseconds; the text of each is the time
//                  at which it was sent, in microseconds of the monotonic clock

export const instructions = "Answer briefly.";
export const prompt = "Tell a story, or call the tool until the sum is complete.";
export const toolName = "add";
export const toolDescription = "Adds two numbers.";
export const toolSchema = {
  type: "object",
  properties: { a: { type: "integer" }, b: { type: "integer" } },
  required: ["a", "b"],
  additionalProperties: false,
} as const;

/** Calls of the tool in this process. */
export const toolCalls = { count: 0 };

export function add({ a, b }: { readonly a: number; readonly b: number }): string {
  toolCalls.count += 1;
  return `${a} plus ${b} is ${a + b}.`;
}

const words = [" once", " upon", " a ti", "me, ", "ther", "e wa", "s a ", "“kin", "g” o", "f\nth", "e no", "rth "];

export function delta(index: number): string {
  return words[index % words.length] ?? "";
}

/** The deltas of the answer that ends a loop. */
export const finalDeltas = 8;

export type Protocol = "chat" | "responses" | "anthropic";

/** A client library, or plain `fetch`, that reads one protocol. */
export type Contender = {
  readonly name: string;
  /** Streams one answer and calls `onDelta` with each text delta. */
  readonly answer: (baseURL: string, model: string, onDelta: (text: string) => void) => Promise<void>;
  /** Runs a whole tool loop. The model ends it. */
  readonly loop: (baseURL: string, model: string, maxTurns: number, onDelta: (text: string) => void) => Promise<void>;
};
