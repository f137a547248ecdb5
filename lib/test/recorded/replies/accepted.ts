// The differences between a recording and the decoded reply, or the next request, that are intended. The readers apply
// them; everything else must be equal.

export const acceptedDifferences: { readonly [name: string]: string } = {
  "empty blocks":
    "A text without characters and a thinking block without text and signature are no parts of the message.",
  "ids of calls":
    "A call without an id gets one from its place (`call_0`), and the second call with an id gets `id~2`: ids must be unique.",
  "calls that were cut off":
    "A call that a token limit or a filter cut off is started and never completed, and is not in the message.",
  "order in Chat Completions":
    "A message of this API has one text, one reasoning and a list of calls without an order between them; parts are compared by kind.",
  "inclusive usage":
    "Cached and reasoning tokens, and those of a compaction, that a provider counts separately are added (docs/decisions/0009); counters that are 0 may be left out of `extra`.",
  "finish reason with calls":
    "A normal end with calls for the program is `tool_calls`, a refusal is `content_filter`; `rawFinishReason` has the word of the provider.",
  "reasoning without a signature": "Anthropic and Gemini refuse it in the next request, so it is shown and not sent.",
  "blank text": "Anthropic refuses blank text blocks in the next request, and `citations: null` means no citations.",
  "message items of Responses":
    "The next request has their text, refusal and phase, without annotations and log probabilities. Id and status are sent after reasoning of a stored response, which the API refuses without the item that followed it; elsewhere the API takes messages without them.",
  "calls of Responses":
    "A call of a response that is not stored, and that no reasoning precedes, is sent without its id and status, which refer to nothing.",
  "last reasoning of Responses": "The API refuses a reasoning item without a following item, and the `status` of one.",
  "arguments that are no object":
    "Blank arguments are `{}`; arguments that are no JSON object are sent back as `{}` where the API requires an object.",
  "fields outside the message":
    "Fields of a Chat or Responses body that neither the reply nor the next request needs (obfuscation, created, tools) are not kept.",
};
