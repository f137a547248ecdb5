// How each stored session is finished.

import type { Ending } from "./ending.ts";
import type { EngineName } from "./engines.ts";

import { openEndings } from "./open-endings.ts";
import { restingEndings } from "./resting-endings.ts";

export const endings: { readonly [N in EngineName]: Ending } = { ...openEndings, ...restingEndings };
