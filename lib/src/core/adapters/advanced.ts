// The names of this folder that `everturn/advanced` exports: the type of a scripted adapter of images.

export type { FakeImagesAdapter } from "./fake-images.ts";
