// Which addresses from messages may be used. Everything else is shown as text: a model or a tool can write any address,
// also `javascript:`.

/** An address that a link may have; `null`: it is not a web or mail address. */
export function safeLink(url: string): string | null {
  try {
    const { protocol, href } = new URL(url);
    return ["http:", "https:", "mailto:"].includes(protocol) ? href : null;
  } catch {
    return null;
  }
}

/** Image types that cannot contain scripts or load anything. SVG can. */
const imageTypes = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** Whether an image may be shown: only `data:` URLs of known types. Others would be a request to another server. */
export function isSafeImage(url: string): boolean {
  const type = /^data:([a-z]+\/[a-z0-9.+-]+);base64,/i.exec(url)?.[1]?.toLowerCase();
  return type !== undefined && imageTypes.includes(type);
}

/** The `data:` URL of base64 data; `null`: the type may not be shown as an image. */
export function imageUrl(mimeType: string | null, data: string): string | null {
  const url = `data:${mimeType ?? ""};base64,${data}`;
  return isSafeImage(url) ? url : null;
}
