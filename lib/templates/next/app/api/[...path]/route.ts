// The API of the sessions. The module is loaded by the first request: `next build` loads routes, too, and must not open
// the database.

const answer = async (request: Request): Promise<Response> => {
  const { handler } = await import("../../../src/sessions.ts");
  return handler(request);
};

export const dynamic = "force-dynamic";
export { answer as DELETE, answer as GET, answer as POST };
