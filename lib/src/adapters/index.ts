// The door of the adapters.

export type { FakeImagesAdapter, FakeImagesCall, FakeImagesOptions, FakeImagesStep } from "./fake-images.ts";
export type { FakeAdapter, FakeCall, FakeOptions, FakeScript, FakeStep } from "./fake.ts";

export { fakeImages } from "./fake-images.ts";
export { fake } from "./fake.ts";
