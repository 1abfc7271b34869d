"""The five actors: Decoder, Predictor, CacheManager, Loader, VerifierStats."""
