// Files that the reader adds to a message: images, PDFs and texts become parts of the user message.

/**
 * The largest size of all files of a message together, in bytes: as base64 they have to fit into a request, which the
 * server limits to 1 MB.
 */
const maxFileBytes = 700 * 1024;

/** The limit for the reader. */
export const maxFileText = "700 KB in all";

export type Attachment = {
  readonly id: number;
  readonly name: string;
  readonly mimeType: string;
  readonly bytes: number;
  /** Base64 data, or the text itself if `isText`. */
  readonly data: string;
  readonly isText: boolean;
};

let lastId = 0;

/** Reads a file to attach beside others; a text says why it cannot be attached. */
export async function readAttachment(file: File, attached: readonly Attachment[]): Promise<Attachment | string> {
  const bytes = attached.reduce((sum, other) => sum + other.bytes, file.size);
  if (bytes > maxFileBytes) return `${file.name} is too large: a message can have ${maxFileText}`;
  const isText =
    file.type.startsWith("text/") || /\.(?:md|txt|csv|json|ya?ml|toml|log|[jt]sx?|py|rs|go|sql)$/i.test(file.name);
  const isImage = ["image/png", "image/jpeg", "image/gif", "image/webp"].includes(file.type);
  if (!isText && !isImage && file.type !== "application/pdf") {
    return `${file.name}: only images, PDFs and texts can be attached`;
  }
  lastId += 1;
  const data = isText ? await file.text() : toBase64(new Uint8Array(await file.arrayBuffer()));
  return { id: lastId, name: file.name, mimeType: file.type || "text/plain", bytes: file.size, data, isText };
}

function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let start = 0; start < bytes.length; start += 0x8000) {
    binary += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  }
  return btoa(binary);
}

/** The content of a user message: its text, or parts if files are attached. */
export function messageContent(text: string, attachments: readonly Attachment[]) {
  if (attachments.length === 0) return text;
  const parts = attachments.map(({ name, mimeType, data, isText }) => {
    if (isText) return { type: "text", text: `File ${name}:\n\n${data}` } as const;
    const source = { type: "base64", data } as const;
    return mimeType === "application/pdf"
      ? ({ type: "file", source, mimeType, name } as const)
      : ({ type: "image", image: { source, mimeType } } as const);
  });
  return text.trim() === "" ? parts : [...parts, { type: "text", text } as const];
}

/** What a message does while a turn runs: it steers the turn, waits for the next one, or interrupts it. */
export type BusyPolicy = "steer" | "queue" | "interrupt";
