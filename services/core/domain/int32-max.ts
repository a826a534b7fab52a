/** The largest value of a Postgres `integer`, and of most counts in answers. */
export const INT32_MAX = 2_147_483_647;
