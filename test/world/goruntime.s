// The compiler accepts functions without a body only in packages that have assembly.
