import { configureGlobal } from 'fast-check';

// Without this, fast-check builds about ten elements at most, whatever `maxLength` an arbitrary states.
configureGlobal({ defaultSizeToMaxWhenMaxSpecified: true });
