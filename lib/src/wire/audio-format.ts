// The format names that OpenAI's APIs use for audio input (`input_audio.format`).

const formats: ReadonlyMap<string, string> = new Map([
  ["audio/wav", "wav"],
  ["audio/x-wav", "wav"],
  ["audio/wave", "wav"],
  ["audio/mpeg", "mp3"],
  ["audio/mp3", "mp3"],
]);

/** The format of a MIME type; `null`: the APIs take no such audio. */
export function audioFormat(mimeType: string | null): string | null {
  return formats.get(mimeType ?? "") ?? null;
}
