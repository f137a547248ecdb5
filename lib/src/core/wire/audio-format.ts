// The names of audio formats in `input_audio.format` of OpenAI's APIs and of the servers that imitate them. OpenAI
// reads WAV and MP3 (https://platform.openai.com/docs/api-reference/chat/create); OpenRouter also the others
// (https://openrouter.ai/docs/features/multimodal/audio).

const formats: ReadonlyMap<string, string> = new Map([
  ["audio/wav", "wav"],
  ["audio/x-wav", "wav"],
  ["audio/wave", "wav"],
  ["audio/vnd.wave", "wav"],
  ["audio/mpeg", "mp3"],
  ["audio/mp3", "mp3"],
  ["audio/aac", "aac"],
  ["audio/aiff", "aiff"],
  ["audio/x-aiff", "aiff"],
  ["audio/flac", "flac"],
  ["audio/x-flac", "flac"],
  ["audio/mp4", "m4a"],
  ["audio/m4a", "m4a"],
  ["audio/x-m4a", "m4a"],
  ["audio/ogg", "ogg"],
]);

/** The formats that OpenAI reads. */
export const openaiAudio: readonly string[] = ["wav", "mp3"];

/** Is it the MIME type of audio? */
export function isAudioType(mimeType: string | null): boolean {
  return mimeType !== null && /^audio\//i.test(mimeType);
}

/** The format of a MIME type, which may have parameters; `null`: it is not one of the formats that the server reads. */
export function audioFormat(mimeType: string | null, accepted: readonly string[] = openaiAudio): string | null {
  const [type = ""] = (mimeType ?? "").toLowerCase().split(";");
  const format = formats.get(type.trim());
  return format !== undefined && accepted.includes(format) ? format : null;
}
