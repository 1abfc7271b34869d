"""The five actors, one file each; `memspec_actors.wiring` connects them.

The Decoder goes on in four more: `decoder_setup`, what it works with and whom it talks to; `requests`, who waits for
it; `run`, the request that it is at work on; and `drafts_in_use`, what it says of drafts to the CacheManager.
"""

from memspec_actors.actors.cache_manager import CacheManager
from memspec_actors.actors.decoder import Decoder
from memspec_actors.actors.decoder_setup import DecoderPeers, DecoderSetup
from memspec_actors.actors.loader import Loader
from memspec_actors.actors.predictor import Predictor
from memspec_actors.actors.verifier_stats import VerifierStats

__all__ = ["CacheManager", "Decoder", "DecoderPeers", "DecoderSetup", "Loader", "Predictor", "VerifierStats"]
