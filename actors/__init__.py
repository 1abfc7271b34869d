"""The five actors, one file each; `memspec_actors.wiring` connects them.

Each module imports only from the lines above its own, and no actor any other:

    decoding                                            what the Decoder is made of
    decoder                                             draft, verify, commit, with whatever draft is resident now
    predictor, cache_manager, loader, verifier_stats    rank; keep the right drafts; read them; count, and learn
"""

from memspec_actors.actors.cache_manager import CacheManager
from memspec_actors.actors.decoder import Decoder
from memspec_actors.actors.decoding.setup import DecoderPeers, DecoderSetup
from memspec_actors.actors.loader import Loader
from memspec_actors.actors.predictor import Predictor
from memspec_actors.actors.verifier_stats import VerifierStats

__all__ = ["CacheManager", "Decoder", "DecoderPeers", "DecoderSetup", "Loader", "Predictor", "VerifierStats"]
