export { type EndpointWish, endpointOf, endpointOptions } from './endpoint-options.js'
export {
  HttpFailure,
  type HttpFault,
  JsonRpcServer,
  type RpcCall,
  RpcFault,
  type RpcHandler,
} from './json-rpc-server.js'
export { RpcSockets, type SocketHandler } from './rpc-sockets.js'
