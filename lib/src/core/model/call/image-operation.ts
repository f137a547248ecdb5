// The operations of image models.

import type { WordOf } from "../parse/shape.ts";

/** An operation of an image model. In a file of its own, because image requests and model references both need it. */
export type ImageOperation = WordOf<typeof imageOperations>;

export const imageOperations = ["generate", "edit", "variation"] as const;
