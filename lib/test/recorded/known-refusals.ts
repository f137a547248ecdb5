// Rules of the providers that requests with recorded conversations violate, because of known defects of the library. A
// rule that no fixture violates any more has to be removed (replies/replies.test.ts).

export const knownRefusals: ReadonlySet<string> = new Set();
