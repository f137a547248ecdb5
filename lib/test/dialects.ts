// The dialects of a handler, for tests that use their routes.

import type { Engine } from "everturn";
import type { Dialect } from "everturn/http";

import { agUi, aiSdkChat, openaiCompletions } from "everturn/http";

/** The dialects over sessions. */
export const chatDialects: readonly Dialect[] = [aiSdkChat(), agUi()];

/** All dialects. The keys of `engines` are the model names of completions. */
export const allDialects = (engines: { readonly [model: string]: Engine }): readonly Dialect[] => [
  ...chatDialects,
  openaiCompletions(engines),
];
