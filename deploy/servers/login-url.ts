/** Returns the URL of the same database for another role. */
export function loginUrl(databaseUrl: string, user: string, password: string): string {
  const url = new URL(databaseUrl);
  url.username = user;
  url.password = password;
  return url.href;
}
