// Responses of two servers as comparable texts, for tests that compare what callers with and without a right get.

/** Whether a stream has a first part; the rest is not read, because the stream of an open session does not end. */
export async function firstPart(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  const { value } = (await reader?.read()) ?? {};
  await reader?.cancel();
  return value === undefined ? "" : "a stream";
}

/** A response without ids and times that differ between two servers. */
export function withoutIds(text: string): string {
  return text
    .replaceAll(/(?:turn|chatcmpl|scenario|session|req)-[\w-]+/g, "an-id")
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "an-id")
    .replaceAll(/\b\d{10,13}\b/g, "a-time")
    .replaceAll(/"p\d\d":\d+/g, '"percentile":"a-time"')
    .replaceAll(/"[\w-]{20,}"/g, '"an-id"');
}
