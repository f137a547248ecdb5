/** What can be asked of an image model. */
export type ImageOperation = (typeof imageOperations)[number];

export const imageOperations = ["generate", "edit", "variation"] as const;
