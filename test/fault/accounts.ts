/** How the sms accounts begin that a route has first, and those that come after them. */
export const FIRST_ACCOUNTS = 'AC0';
export const NEXT_ACCOUNTS = 'AC1';
