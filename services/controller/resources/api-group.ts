/** The API group of the custom resources, and the version that is served and stored. */
export const API_GROUP = 'despatch.dev';
export const API_VERSION = 'v1alpha1';

/** The value of `apiVersion`. */
export const GROUP_VERSION = `${API_GROUP}/${API_VERSION}` as const;
